// SPDX-License-Identifier: Apache-2.0
// Lazy stubs for the functions of libsndfile and libsamplerate that Sinter calls. A further
// function needs one more row.
#include <samplerate.h>
#include <sndfile.h>

#include "runtime/libraries/lazy/lazy_library.h"

namespace {
constinit sinter::libraries::LazyLibrary sndfile(SINTER_SNDFILE_SONAME,
                                                 "libsndfile (files of sound)",
                                                 "apt install " SINTER_SNDFILE_PACKAGE);
constinit sinter::libraries::LazyLibrary samplerate(SINTER_SAMPLERATE_SONAME,
                                                    "libsamplerate (other rates of sound)",
                                                    "apt install " SINTER_SAMPLERATE_PACKAGE);
}  // namespace

SINTER_LAZY_1(sndfile, sf_close)
SINTER_LAZY_1(sndfile, sf_error)
SINTER_LAZY_4(sndfile, sf_open_virtual)
SINTER_LAZY_3(sndfile, sf_readf_float)
SINTER_LAZY_1(sndfile, sf_strerror)
SINTER_LAZY_3(samplerate, src_simple)
SINTER_LAZY_1(samplerate, src_strerror)
