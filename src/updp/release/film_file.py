"""The file of a released film: PNG or DICOM, as the policy asks."""

from __future__ import annotations

from updp.core.policy import Policy
from updp.core.record import Study
from updp.imaging.encode import encode_native_png, encode_png
from updp.release.provenance import provenance


def film_file(study: Study, policy: Policy) -> tuple[list[bytes], str]:
    """Bytes, in parts that follow each other, and suffix of the file of a study that has passed every station."""
    made = provenance(policy)
    wanted = policy.image.format
    if wanted == "source":
        wanted = "png" if study.header is None else "dicom"
    if wanted == "dicom":
        from updp.release.dicom import encode_dicom, encode_native

        if study.native is not None and study.header is not None:
            return encode_native(study, policy.image.transfer_syntax, made), "dcm"
        return [encode_dicom(study, policy.release.attributes, made, policy.image.transfer_syntax)], "dcm"
    text = {"Description": made.statement}
    if study.native is not None:
        return [encode_native_png(study.native, text)], "png"
    assert study.pixels is not None
    return [encode_png(study.pixels, text)], "png"
