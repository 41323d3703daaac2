"""`python quantize.py IN OUT TYPE`: quantise a GGUF file with llama.cpp, in an environment that has cyllama."""

import sys

from cyllama.llama import llama_cpp

# llama.cpp's numbers of the types of files (`enum llama_ftype`), which its C interface takes.
FILE_TYPES = {
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K_S": 11,
    "Q3_K_M": 12,
    "Q3_K_L": 13,
    "Q4_K_S": 14,
    "Q4_K_M": 15,
    "Q5_K_S": 16,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "IQ4_XS": 30,
}


def main(source: str, target: str, file_type: str) -> None:
    """Quantise; an error ends the program with what the library says."""
    params = llama_cpp.LlamaModelQuantizeParams()
    params.ftype = FILE_TYPES[file_type]
    llama_cpp.model_quantize(source, target, params)


if __name__ == "__main__":
    main(*sys.argv[1:])
