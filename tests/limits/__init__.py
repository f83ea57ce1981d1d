"""Test the reasons for which nodes and groups reject an instance."""
