/* A libcuda.so.1 whose functions say that there is no device: SGLang imports libraries that link to it, and on a
 * processor calls none of them. For tests only; `test_real_sglang.py` compiles it. */
#define ABSENT(name) int name(void) { return 100; }
ABSENT(cuCtxFromGreenCtx) ABSENT(cuCtxGetDevice) ABSENT(cuCtxPopCurrent_v2) ABSENT(cuCtxPushCurrent_v2)
ABSENT(cuDevResourceGenerateDesc) ABSENT(cuDevSmResourceSplitByCount) ABSENT(cuDeviceGet) ABSENT(cuDeviceGetAttribute)
ABSENT(cuDeviceGetDevResource) ABSENT(cuDriverGetVersion) ABSENT(cuGetErrorString) ABSENT(cuGetProcAddress_v2)
ABSENT(cuGreenCtxCreate) ABSENT(cuGreenCtxDestroy) ABSENT(cuGreenCtxGetDevResource) ABSENT(cuInit)
ABSENT(cuMemAddressFree) ABSENT(cuMemAddressReserve) ABSENT(cuMemCreate) ABSENT(cuMemGetAllocationGranularity)
ABSENT(cuMemMap) ABSENT(cuMemRelease) ABSENT(cuMemSetAccess) ABSENT(cuMemUnmap) ABSENT(cuPointerGetAttribute)
ABSENT(cuStreamCreate)
