"""MeMa (Tian et al., AAAI 2025): photographs of patients who are not, made from those of a clinic."""
