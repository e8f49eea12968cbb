"""Published methods for faces, each small, in the linear space of faces of a pack (``models.face_space``).

Encoder, decoder and identity are the same for all of them; they differ in what they do to the identity, as their papers
do. What a linear face cannot say (a lesion, a vessel, single hairs) is its detail, which only `fit` keeps.
"""
