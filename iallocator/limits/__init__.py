"""Why a node or a group cannot take an instance."""
