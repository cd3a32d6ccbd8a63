"""The compiled kernels: fused, threaded, and exact where exactness is free. Nothing compiles at import."""
