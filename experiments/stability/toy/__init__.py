"""The toy model of the residual scaling paper's theorems: one ReLU layer, looped."""
