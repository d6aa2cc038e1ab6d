"""The modules whose names are public."""

MODULES = [
    "cbq",
    "cbq.comparison",
    "cbq.embeddings",
    "cbq.estimators",
    "cbq.fit",
    "cbq.integrands",
    "cbq.kernels",
    "cbq.linalg",
    "cbq.measures",
    "cbq.nested",
    "cbq.problems",
    "cbq.runs",
    "cbq.samples",
    "cbq.sklearn",
    "cbq.voi",
    "cbq.voi.studies",
]
