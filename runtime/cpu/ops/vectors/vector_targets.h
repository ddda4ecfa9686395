// SPDX-License-Identifier: Apache-2.0
// The Highway targets to compile vector code for; include before highway.h.
#pragma once

// Compared with the baseline and the remaining targets, these add nothing to float32 arithmetic and
// moves.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
