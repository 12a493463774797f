"""What is checked and measured on a device: `check.sh` for all of it, `tests.bench` for the two bounds."""
