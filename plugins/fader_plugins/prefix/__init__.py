"""Parts of the prefix cache: a tree over tokens, tiers within budgets, files on disk, and the reasons for a miss."""
