// SPDX-License-Identifier: Apache-2.0
// Lazy stubs for the functions of oneDNN that Sinter calls. A further function needs one more row.
#include <dnnl.h>

#include "runtime/libraries/lazy/lazy_library.h"

namespace {
constinit sinter::libraries::LazyLibrary onednn(SINTER_DNNL_SONAME,
                                                "oneDNN (matmuls and convolutions on the CPU)",
                                                SINTER_DNNL_INSTALL);
}  // namespace

SINTER_LAZY_13(onednn, dnnl_convolution_forward_primitive_desc_create)
SINTER_LAZY_3(onednn, dnnl_engine_create)
SINTER_LAZY_1(onednn, dnnl_engine_destroy)
SINTER_LAZY_17(onednn, dnnl_gemm_u8s8s32)
SINTER_LAZY_0(onednn, dnnl_get_effective_cpu_isa)
SINTER_LAZY_7(onednn, dnnl_matmul_primitive_desc_create)
SINTER_LAZY_5(onednn, dnnl_memory_create_v2)
SINTER_LAZY_2(onednn, dnnl_memory_desc_clone)
SINTER_LAZY_4(onednn, dnnl_memory_desc_create_submemory)
SINTER_LAZY_5(onednn, dnnl_memory_desc_create_with_strides)
SINTER_LAZY_5(onednn, dnnl_memory_desc_create_with_tag)
SINTER_LAZY_1(onednn, dnnl_memory_desc_destroy)
SINTER_LAZY_2(onednn, dnnl_memory_desc_equal)
SINTER_LAZY_2(onednn, dnnl_memory_desc_get_size_v2)
SINTER_LAZY_3(onednn, dnnl_memory_desc_query)
SINTER_LAZY_4(onednn, dnnl_memory_desc_query_v2)
SINTER_LAZY_1(onednn, dnnl_memory_destroy)
SINTER_LAZY_3(onednn, dnnl_memory_get_data_handle_v2)
SINTER_LAZY_2(onednn, dnnl_memory_get_engine)
SINTER_LAZY_2(onednn, dnnl_memory_get_memory_desc)
SINTER_LAZY_2(onednn, dnnl_memory_set_data_handle)
SINTER_LAZY_3(onednn, dnnl_post_ops_append_binary)
SINTER_LAZY_4(onednn, dnnl_post_ops_append_eltwise)
SINTER_LAZY_1(onednn, dnnl_post_ops_create)
SINTER_LAZY_1(onednn, dnnl_post_ops_destroy)
SINTER_LAZY_1(onednn, dnnl_post_ops_len)
SINTER_LAZY_1(onednn, dnnl_primitive_attr_create)
SINTER_LAZY_1(onednn, dnnl_primitive_attr_destroy)
SINTER_LAZY_2(onednn, dnnl_primitive_attr_set_post_ops)
SINTER_LAZY_2(onednn, dnnl_primitive_attr_set_scratchpad_mode)
SINTER_LAZY_2(onednn, dnnl_primitive_create)
SINTER_LAZY_1(onednn, dnnl_primitive_desc_destroy)
SINTER_LAZY_4(onednn, dnnl_primitive_desc_query)
SINTER_LAZY_3(onednn, dnnl_primitive_desc_query_md)
SINTER_LAZY_1(onednn, dnnl_primitive_destroy)
SINTER_LAZY_4(onednn, dnnl_primitive_execute)
SINTER_LAZY_6(onednn, dnnl_reorder_primitive_desc_create)
SINTER_LAZY_13(onednn, dnnl_sgemm)
SINTER_LAZY_3(onednn, dnnl_stream_create)
SINTER_LAZY_1(onednn, dnnl_stream_destroy)
SINTER_LAZY_1(onednn, dnnl_stream_wait)
SINTER_LAZY_0(onednn, dnnl_version)
