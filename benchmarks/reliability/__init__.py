"""What is left, lost or doubled when things are killed: plain rq and Overnight side by side."""
