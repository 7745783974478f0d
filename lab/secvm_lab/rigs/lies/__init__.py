"""Lies that a coordinator or a relay may tell, and the device and the auditor that have to notice them."""
