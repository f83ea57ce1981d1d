"""Tests of other sources of clusters than request documents."""
