"""PrivDiff-Net: a film noised and denoised, steered towards its findings and off its patient."""
