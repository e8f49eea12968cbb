"""PriCheXy-Net: a learned deformation of the film."""
