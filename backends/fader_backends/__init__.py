"""What a model is: sessions over tokens, and the libraries behind them. Knows no hooks, no app, no screen."""
