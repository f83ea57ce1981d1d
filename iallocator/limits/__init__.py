"""Find the reasons for which a node or a group cannot host an instance."""
