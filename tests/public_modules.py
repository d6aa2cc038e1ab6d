"""The modules whose names are public."""

MODULES = [
    "cbq",
    "cbq.adaptive",
    "cbq.comparison",
    "cbq.embeddings",
    "cbq.fit",
    "cbq.integrands",
    "cbq.kernels",
    "cbq.linalg",
    "cbq.measures",
    "cbq.methods",
    "cbq.nested",
    "cbq.problems",
    "cbq.psa",
    "cbq.psa.studies",
    "cbq.samples",
]
