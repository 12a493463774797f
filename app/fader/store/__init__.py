"""Conversations on disk: a tree of messages in one SQLite file that several instances may share.

Knows nothing of models, engines or screens.
"""

from .comparisons import Choice, Listed
from .conversations import Store
from .values import Conversation, Hit, Node, State, Twig

__all__ = ["Choice", "Conversation", "Hit", "Listed", "Node", "State", "Store", "Twig"]
