"""What the commands of `fader` do, one module each; `fader.cli` says how they are called."""
