"""DICOM headers: canaries that survive, validity of the result, and speed, beside three other tools.

    python performance/headers.py [--peers PYTHON] [--table E11.json] [--files N] [--rounds N]

``--peers`` is a Python that has ``dicom-anonymizer``, ``deid`` and ``dicognito``; without it this one is used and tools
that are missing are left out. ``--table`` is a parse of Table E.1-1 (a list of {"id": "00100010", ...}) to place
canaries by; without it updp's own table is used. Validity is judged by ``dciodvfy`` (Debian package dicom3tools).
Every tool runs in a process of its own over the same files: read, clean, save.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import pydicom
from pydicom.datadict import dictionary_VR
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

warnings.simplefilter("ignore")

TOOLS = ("updp", "dicom-anonymizer 2024b", "dicom-anonymizer", "deid", "dicognito")
CANARY = re.compile(rb"(?i)canary[0-9a-z]*")


# -- the tools, each in its own process ------------------------------------------------------------------------------


def run_tool(tool: str, source: Path, target: Path) -> None:
    """Clean every file of ``source`` into ``target``; print the seconds it took."""
    import logging

    logging.disable(logging.CRITICAL)
    paths = sorted(source.iterdir())
    if tool == "updp":
        from updp.core.keys import Key
        from updp.core.policy import HeaderPolicy
        from updp.reports import Detector
        from updp.screening.encoding import save
        from updp.screening.headers import HeaderCleaner

        key = Key(b"benchmark key, 32 bytes long....!"[:32])
        cleaner = HeaderCleaner(HeaderPolicy(), key, Detector())

        def clean(path: Path) -> None:
            dataset = pydicom.dcmread(path)
            new = cleaner.clean(dataset, patient_id=str(dataset.get("PatientID", "")) or "none")
            save(new, target / f"{key.film(path.stem)}.dcm")  # a release names films by key

    elif tool.startswith("dicom-anonymizer"):
        from dicomanonymizer.simpledicomanonymizer import (  # type: ignore[import-untyped]
            anonymize_dicom_file,
            initialize_actions,
            initialize_actions_2024b,
        )

        rules = initialize_actions_2024b if tool.endswith("2024b") else initialize_actions

        def clean(path: Path) -> None:
            anonymize_dicom_file(str(path), str(target / path.name), base_rules_gen=rules)

    elif tool == "deid":
        from deid.dicom import get_identifiers, replace_identifiers  # type: ignore[import-untyped]

        def clean(path: Path) -> None:
            found = get_identifiers([str(path)])
            replace_identifiers([str(path)], ids=found, save=True, output_folder=str(target), overwrite=True)

    else:
        from dicognito.anonymizer import Anonymizer  # type: ignore[import-untyped]

        anonymizer = Anonymizer()

        def clean(path: Path) -> None:
            dataset = pydicom.dcmread(path)
            anonymizer.anonymize(dataset)
            dataset.save_as(target / path.name)

    clean(paths[0])  # imports and tables are loaded once, whoever the tool is
    start = time.process_time()  # of this process alone, so that a busy machine favours nobody
    failed = 0
    for path in paths:
        try:
            clean(path)
        except Exception:
            failed += 1
    print(json.dumps({"seconds": time.process_time() - start, "failed": failed}))


def start_tool(tool: str, python: str, source: Path, target: Path) -> dict[str, Any] | None:
    target.mkdir(parents=True, exist_ok=True)
    interpreter = sys.executable if tool == "updp" else python
    command = [interpreter, __file__, "--run", tool, str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        if "ModuleNotFoundError" not in done.stderr:
            print(f"{tool}: {done.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
        return None
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    result["console"] = done.stdout + done.stderr
    return result


# -- canaries --------------------------------------------------------------------------------------------------------


def canary(vr: str, n: int) -> Any:
    """A value of this VR that can be found again."""
    made: dict[str, Any] = {
        "DA": f"19{50 + n % 50}0{1 + n % 9}1{n % 10}", "TM": f"1{n % 10}2{n % 10}3{n % 10}.{n:06d}",
        "DT": f"19{50 + n % 50}0{1 + n % 9}1{n % 10}1122{n % 60:02d}", "UI": f"1.2.826.0.1.99.{n}.7", "AS": "077Y",
        "PN": f"Canary{n}^Nested", "DS": f"{n}.25", "IS": str(70000 + n), "FD": n + 0.25, "FL": n + 0.25,
        "AE": f"CANARY{n}",
        "US": 7000 + n, "UL": 7000 + n, "SS": 7000 + n, "SL": 7000 + n, "UR": f"http://canary{n}.example",
        "CS": f"CANARY{n}", "SH": f"CANARY{n}", "OB": b"CANARY%06d" % n, "OW": b"CANARY%06d" % n,
        "UN": b"CANARY%06d" % n,
    }  # fmt: skip
    return made.get(vr, f"Canary{n} text")


def attributes(table: Path | None) -> list[int]:
    if table is None:
        from updp.screening import tables

        listed: list[int] = list(tables.profile())
    else:
        rows = json.loads(table.read_text())
        listed = [int(r["id"], 16) for r in rows if re.fullmatch(r"[0-9a-f]{8}", r["id"])]
    known = []
    for tag in sorted(set(listed)):
        try:
            dictionary_VR(tag)
        except KeyError:
            continue
        if tag >> 16 > 0x0004:  # command group, file meta and directory records are not part of a dataset
            known.append(tag)
    return known


def canary_file(tags: list[int], path: Path) -> Dataset:
    """A CR object with a canary in every attribute, a name three sequences deep, a private block, curve and overlay."""
    ds = Dataset()
    for n, tag in enumerate(tags):
        vr = dictionary_VR(tag).split(" ")[0]
        if vr == "SQ":
            item = Dataset()
            item.PatientName, item.StudyDescription, item.TextValue = f"Canary{n}^In", f"Canary{n}", f"Canary{n}"
            item.CodeMeaning, item.ReferencedSOPInstanceUID = f"Canary{n}", f"1.2.826.0.1.98.{n}"
            ds.add_new(tag, "SQ", [item])
        else:
            ds.add_new(tag, vr, canary(vr, n))
    deep, middle, outer = Dataset(), Dataset(), Dataset()
    deep.PatientName = "CanaryDeep^Name"
    middle.add_new(0x00081199, "SQ", [deep])
    outer.add_new(0x00081115, "SQ", [middle])
    ds.add_new(0x00081032, "SQ", [outer])
    block = ds.private_block(0x0011, "CANARY PRIVATE", create=True)
    block.add_new(0x01, "LO", "CanaryPrivate value")
    ds.add_new(0x50000022, "LO", "CanaryCurve")
    ds.add_new(0x60003000, "OW", b"CANARYOVERLAY00 ")
    ds.add_new(0x60004000, "LT", "CanaryOverlayComment")
    ds.SOPClassUID, ds.Modality = "1.2.840.10008.5.1.4.1.1.1", "CR"
    ds.Rows = ds.Columns = 8
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation, ds.SamplesPerPixel = 8, 8, 7, 0, 1
    ds.PhotometricInterpretation, ds.PixelData = "MONOCHROME2", bytes(64)
    _save(ds, path, preamble=b"CanaryPreamble".ljust(128, b"\0"))
    return ds


def survivors(before: Dataset, after_path: Path, tags: list[int]) -> tuple[int, int, int]:
    """Attributes whose value is unchanged; canary words left in the bytes; those inside sequences alone."""
    after = pydicom.dcmread(after_path, force=True)
    unchanged = 0
    for tag in tags:
        if tag not in after or dictionary_VR(tag) == "SQ":
            nested = tag in after and CANARY.search(str(after[tag]).encode("utf-8", "replace"))
            unchanged += bool(nested)
        else:
            unchanged += after[tag].value == before[tag].value
    words = set(CANARY.findall(after_path.read_bytes()))
    return unchanged, len(words), int(any(b"anaryDeep" in w for w in words))


# -- ordinary objects ------------------------------------------------------------------------------------------------


def _save(ds: Dataset, path: Path, preamble: bytes = b"\0" * 128) -> None:
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds.file_meta.MediaStorageSOPClassUID = ds.SOPClassUID
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID
    ds.preamble = preamble
    ds.save_as(path, enforce_file_format=True)


def _code(value: str, scheme: str, meaning: str) -> Dataset:
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = value, scheme, meaning
    return item


def ordinary(n: int, kind: str) -> Dataset:
    """A valid object as a hospital sends it: CR, DX, SC or a structured report."""
    ds = Dataset()
    ds.SpecificCharacterSet = "ISO_IR 100"
    ds.SOPInstanceUID, ds.StudyInstanceUID, ds.SeriesInstanceUID = (f"1.2.826.0.1.77.{k}.{n}" for k in (1, 2, 3))
    ds.PatientName, ds.PatientID, ds.PatientBirthDate, ds.PatientSex = "Meyer^Jonathan", f"MRN{n:07d}", "19760616", "M"
    ds.PatientAge, ds.OtherPatientIDs = "043Y", f"ALT{n}"
    ds.StudyDate = ds.SeriesDate = ds.ContentDate = ds.AcquisitionDate = "20190314"
    ds.StudyTime = ds.SeriesTime = ds.ContentTime = ds.AcquisitionTime = "103207"
    ds.AccessionNumber, ds.StudyID, ds.SeriesNumber, ds.InstanceNumber = f"A{n:06d}", str(n), "1", "1"
    ds.ReferringPhysicianName, ds.OperatorsName = "Kaufman^Stephanie", "Douglas^Anne"
    ds.InstitutionName, ds.InstitutionAddress, ds.StationName = "St Mary Hospital", "1 Main Street", "XR02"
    ds.Manufacturer, ds.ManufacturerModelName, ds.DeviceSerialNumber = "Acme Imaging", "FlatPanel 3", "SN-99812"
    ds.SoftwareVersions, ds.StudyDescription, ds.SeriesDescription = "2.1", "CHEST PA AND LATERAL", "PA MEYER"
    request = Dataset()
    request.RequestedProcedureID, request.ScheduledProcedureStepID = f"RP{n}", f"SP{n}"
    ds.RequestAttributesSequence = [request]
    ds.ProcedureCodeSequence = [_code("399208008", "SCT", "Plain chest X-ray")]
    if kind == "SR":
        ds.SOPClassUID, ds.Modality = "1.2.840.10008.5.1.4.1.1.88.11", "SR"
        ds.Manufacturer = "Acme Imaging"
        ds.CompletionFlag, ds.VerificationFlag, ds.ValueType, ds.ContinuityOfContent = (
            "COMPLETE",
            "UNVERIFIED",
            "CONTAINER",
            "SEPARATE",
        )
        ds.ConceptNameCodeSequence = [_code("18748-4", "LN", "Diagnostic imaging report")]
        ds.ReferencedPerformedProcedureStepSequence = []
        ds.PerformedProcedureCodeSequence = []
        observer, finding = Dataset(), Dataset()
        observer.RelationshipType, observer.ValueType, observer.PersonName = (
            "HAS OBS CONTEXT",
            "PNAME",
            "Kaufman^Stephanie",
        )
        observer.ConceptNameCodeSequence = [_code("121008", "DCM", "Person Observer Name")]
        finding.RelationshipType, finding.ValueType = "CONTAINS", "TEXT"
        finding.ConceptNameCodeSequence = [_code("121071", "DCM", "Finding")]
        finding.TextValue = "Small left pleural effusion. Discussed with Dr. Stephanie Kaufman on 03/14/2019."
        ds.ContentSequence = [observer, finding]
        return ds
    ds.Rows = ds.Columns = 64
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation, ds.SamplesPerPixel = 16, 12, 11, 0, 1
    ds.PhotometricInterpretation, ds.PixelData = "MONOCHROME2", bytes(64 * 64 * 2)
    ds.PatientOrientation = ["L", "F"]
    if kind == "CR":
        ds.SOPClassUID, ds.Modality, ds.BodyPartExamined, ds.ViewPosition = (
            "1.2.840.10008.5.1.4.1.1.1",
            "CR",
            "CHEST",
            "PA",
        )
        ds.PlateID, ds.AcquisitionDeviceProcessingDescription = "P1", "CHEST"
    elif kind == "DX":
        ds.SOPClassUID, ds.Modality, ds.PresentationIntentType = "1.2.840.10008.5.1.4.1.1.1.1", "DX", "FOR PRESENTATION"
        ds.ImageType, ds.ImageLaterality, ds.ViewPosition = ["ORIGINAL", "PRIMARY", ""], "U", "PA"
        ds.PixelIntensityRelationship, ds.PixelIntensityRelationshipSign = "LOG", -1
        ds.RescaleIntercept, ds.RescaleSlope, ds.RescaleType, ds.PresentationLUTShape = "0", "1", "US", "IDENTITY"
        ds.LossyImageCompression, ds.BurnedInAnnotation, ds.DetectorType, ds.DetectorID = "00", "NO", "DIRECT", "D-1187"
        ds.WindowCenter, ds.WindowWidth, ds.AcquisitionContextSequence = "2048", "4096", []
        ds.AnatomicRegionSequence = [_code("51185008", "SCT", "Chest")]
        ds.ViewCodeSequence = [_code("399348003", "SCT", "Antero-posterior")]
        ds.ImagerPixelSpacing, ds.PositionerType, ds.KVP, ds.ExposureInuAs = ["0.14", "0.14"], "NONE", "110", 4000
    else:
        ds.SOPClassUID, ds.Modality, ds.ConversionType = "1.2.840.10008.5.1.4.1.1.7", "OT", "WSD"
        ds.SecondaryCaptureDeviceID, ds.DateOfSecondaryCapture = "CAP1", "20190314"
    block = ds.private_block(0x0019, "ACME 1.0", create=True)
    block.add_new(0x10, "LO", "Meyer^Jonathan")
    return ds


def _of_kind(folder: Path, source: Path) -> Path | None:
    """The file of a folder that was made of ``source``: by its name, or by the kind of object."""
    if (folder / source.name).exists():
        return folder / source.name
    wanted = pydicom.dcmread(source, stop_before_pixels=True).SOPClassUID
    for path in sorted(folder.glob("*.dcm")):
        if pydicom.dcmread(path, stop_before_pixels=True, force=True).get("SOPClassUID") == wanted:
            return path
    return None


def validity(path: Path) -> collections.Counter[str]:
    """The errors dciodvfy finds, without values and places."""
    done = subprocess.run(["dciodvfy", str(path)], capture_output=True, text=True, errors="replace")
    errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("Error")]
    return collections.Counter(
        re.sub(r"=?<[^>]*>(?= - )|\[[^\]]*\]|/\S+|[\d.]{2,}", "", line).strip() for line in errors
    )


# -- the three tables ------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the other tools")
    parser.add_argument("--table", type=Path, help="a parse of Table E.1-1 to place canaries by")
    parser.add_argument("--files", type=int, default=300, help="files for the speed table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=3, metavar=("TOOL", "SOURCE", "TARGET"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run_tool(args.run[0], Path(args.run[1]), Path(args.run[2]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        _tables(args, Path(folder))
    return 0


def _tables(args: argparse.Namespace, work: Path) -> None:
    tags = attributes(args.table)
    (work / "canary").mkdir()
    before = canary_file(tags, work / "canary" / "CanaryFile_Name.dcm")
    kinds = ("CR", "DX", "SC", "SR")
    (work / "valid").mkdir()
    for n, kind in enumerate(kinds):
        _save(ordinary(n, kind), work / "valid" / f"{kind}.dcm")
    input_errors = (
        {kind: validity(work / "valid" / f"{kind}.dcm") for kind in kinds} if shutil.which("dciodvfy") else None
    )

    print(f"One CR file, a canary in each of {len(tags)} attributes of Table E.1-1 and beside it.\n")
    columns = ("tool", "values unchanged", "canary words in the file", "file name", "name three deep", "private block",
               "flag (0012,0062)", "codes (0012,0064)", "new dciodvfy errors (CR, DX, SC, SR)")  # fmt: skip
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for tool in TOOLS:
        ran = start_tool(tool, args.peers, work / "canary", work / f"canary-{tool}")
        out = next(iter((work / f"canary-{tool}").glob("*.dcm")), None)
        if ran is None or out is None:
            print(f"| {tool} | not run |" + " |" * (len(columns) - 2))
            continue
        unchanged, words, deep = survivors(before, out, tags)
        after = pydicom.dcmread(out, force=True)
        private = any(e.tag.is_private for e in after)
        start_tool(tool, args.peers, work / "valid", work / f"valid-{tool}")
        new = []
        for kind in kinds if input_errors else ():
            found = _of_kind(work / f"valid-{tool}", work / "valid" / f"{kind}.dcm")
            new.append(str((validity(found) - input_errors[kind]).total()) if found else "refused")
        name = "kept" if "Canary" in out.name else "gone"
        leaked = " (and on the console)" if CANARY.search(ran["console"].encode()) else ""
        print(
            f"| {tool} | {unchanged} | {words}{leaked} | {name} | {'left' if deep else 'gone'} | "
            f"{'left' if private else 'gone'} | "
            f"{after.get('PatientIdentityRemoved', 'not set')} | "
            f"{len(after.get('DeidentificationMethodCodeSequence', []))} | {', '.join(new) or 'not run'} |",
            flush=True,
        )

    (work / "speed").mkdir()
    for n in range(args.files):
        _save(ordinary(n, "CR" if n % 2 else "DX"), work / "speed" / f"{n:05d}.dcm")
    seconds: dict[str, list[float]] = {tool: [] for tool in TOOLS}
    for turn in range(args.rounds):
        for tool in TOOLS:
            ran = start_tool(tool, args.peers, work / "speed", work / f"speed-{turn}-{tool}")
            if ran is not None:
                seconds[tool].append(ran["seconds"])
    rates = {tool: args.files / statistics.median(t) for tool, t in seconds.items() if t}
    base = rates.get("dicom-anonymizer 2024b")
    print(f"\n{args.files} files of 64 x 64 pixels: read, clean, save.", end=" ")
    print(f"CPU time of one process, median of {args.rounds} rounds.\n")
    print("| tool | files per CPU second | against dicom-anonymizer 2024b |")
    print("|---|---|---|")
    for tool, rate in rates.items():
        print(f"| {tool} | {rate:.0f} | {f'{rate / base:.2f} x' if base else 'n/a'} |")


if __name__ == "__main__":
    raise SystemExit(main())
