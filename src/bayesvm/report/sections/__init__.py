"""The sections of a report: each module turns a fit into the words and numbers of one template."""
