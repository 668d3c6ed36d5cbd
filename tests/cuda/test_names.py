"""The names of torch.cuda: which are here, and which are left out."""

import edutorch

LEFT_OUT = {
    "allocators of one's own": {
        "CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
        "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator",
        "use_mem_pool",
    },
    "handles and libraries of PyTorch's own C++": {
        "CudaError", "DeferredCudaCallError", "GreenContext", "check_error", "cudaStatus", "cudart",
        "current_blas_handle", "current_solver_handle", "jiterator", "nccl", "profiler", "sparse",
        "tunable",
    },
    "statistics of pinned memory, which CuPy's pool does not keep": {
        "host_memory_stats", "host_memory_stats_as_nested_dict",
        "reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats",
    },
    "old classes of storages, one per dtype": {
        "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
        "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage",
        "LongStorage", "ShortStorage",
    },
}  # fmt: skip


def test_every_public_name_is_here_or_left_out(torch):
    public = {*torch.cuda.__all__}
    missing = {name for name in public if not hasattr(edutorch.cuda, name)}
    assert missing == set().union(*LEFT_OUT.values())
    print(f"{len(public) - len(missing)} of {len(public)} public names of torch.cuda are here")


def test_signatures_are_pytorchs(torch):
    import inspect

    wrong = []
    for name in sorted({*torch.cuda.__all__} & {*edutorch.cuda.__all__}):
        theirs, mine = getattr(torch.cuda, name), getattr(edutorch.cuda, name)
        if inspect.isfunction(theirs) and inspect.isfunction(mine):
            expected = list(inspect.signature(theirs).parameters)
            if list(inspect.signature(mine).parameters) != expected:
                wrong.append((name, expected))
    assert wrong == []


def test_few_modules_are_loaded_at_once():
    import subprocess
    import sys

    code = (
        "import sys, edutorch; loaded = [n for n in sys.modules if n.startswith('edutorch.cuda.')];"
        "assert sorted(loaded) == ['edutorch.cuda.amp'], loaded;"
        "assert 'Stream' in dir(edutorch.cuda) and edutorch.cuda.Stream.__doc__"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
