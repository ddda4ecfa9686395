// SPDX-License-Identifier: Apache-2.0
// The Highway targets to compile vector code for; include before highway.h.
#pragma once

// Two targets are left out on purpose. For float32 arithmetic and moves SSSE3 has nothing beyond
// the baseline, nor AVX3_DL beyond AVX3; each would be one more copy of the code.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
