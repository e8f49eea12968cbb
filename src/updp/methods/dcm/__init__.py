"""DCM-DeID: cells that show the patient blocked and drawn anew."""
