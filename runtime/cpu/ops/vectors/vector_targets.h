// SPDX-License-Identifier: Apache-2.0
// Which of Highway's targets vector code is compiled for; to be included before highway.h.
#pragma once

// Between these and the baseline the other targets add nothing to float32 arithmetic and to moves.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
