"""The lab: claims as evidence that someone else can run again. Knows no screen."""
