"""What Ganeti asked and was told: a line in a log, and files to ask it again.

A captured call is a number and these files, laid out as cases of `replay` are:

=======================  ========================================================
NUMBER.args              the options of the command line, written before the work
NUMBER.conf              what a configuration file added, if it added anything
NUMBER.request.json.gz   the request as it came, written before the work
NUMBER.response.json.gz  the answer; of a request that cannot be understood its
                         error; absent after a crash
NUMBER.call.json         when it was, how long it took and what came of it; absent
                         if the process was killed
=======================  ========================================================

Nothing of this is ever a reason not to answer: what goes wrong is told in the answer.
"""
