"""Global N+1: could every node fail, and what runs there find another place?"""
