"""The judge: real films beside their released counterparts, attacked and put to use, inside the hospital."""
