"""Test how clusters are read: through LUXI and RAPI, from files, and with `ask`."""
