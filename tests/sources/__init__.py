"""Test clusters from other sources than request documents."""
