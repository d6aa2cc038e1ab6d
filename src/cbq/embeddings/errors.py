"""What is raised where there is no embedding."""


class NoEmbedding(TypeError):
    """There is no closed form for a kernel and a measure; the message says what can be done instead."""
