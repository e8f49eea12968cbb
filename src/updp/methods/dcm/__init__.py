"""DCM-DeID: cells that identify the patient are blocked and generated again."""
