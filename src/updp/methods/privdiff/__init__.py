"""PrivDiff-Net: a film noised and denoised, guided towards its findings and away from its patient."""
