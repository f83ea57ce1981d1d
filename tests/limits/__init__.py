"""Test the reasons why nodes and groups reject an instance."""
