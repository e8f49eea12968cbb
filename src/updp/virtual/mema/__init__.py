"""MeMa (Tian et al., AAAI 2025): photographs of patients who do not exist, made from those of a clinic."""
