"""invented-face: an invented face around the patient's eyes, recovered by a password."""
