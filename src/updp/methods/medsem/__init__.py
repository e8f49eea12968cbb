"""MedSem-DeID: another face around the patient's eyes, recovered by a password."""
