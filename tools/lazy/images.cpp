// SPDX-License-Identifier: Apache-2.0
// Lazy stubs for the functions of libpng, libjpeg and libwebp that Sinter calls. A further function
// needs one more row.
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>
#include <png.h>
#include <webp/decode.h>

#include "runtime/libraries/lazy/lazy_library.h"

namespace {
constinit sinter::libraries::LazyLibrary png(SINTER_PNG_SONAME, "libpng (PNG images)",
                                             "apt install " SINTER_PNG_PACKAGE);
constinit sinter::libraries::LazyLibrary jpeg(SINTER_JPEG_SONAME, "libjpeg (JPEG images)",
                                              "apt install " SINTER_JPEG_PACKAGE);
constinit sinter::libraries::LazyLibrary webp(SINTER_WEBP_SONAME, "libwebp (WebP images)",
                                              "apt install " SINTER_WEBP_PACKAGE);
}  // namespace

SINTER_LAZY_3(png, png_image_begin_read_from_memory)
SINTER_LAZY_5(png, png_image_finish_read)
SINTER_LAZY_1(png, png_image_free)
SINTER_LAZY_3(jpeg, jpeg_CreateDecompress)
SINTER_LAZY_1(jpeg, jpeg_destroy_decompress)
SINTER_LAZY_1(jpeg, jpeg_finish_decompress)
SINTER_LAZY_3(jpeg, jpeg_mem_src)
SINTER_LAZY_2(jpeg, jpeg_read_header)
SINTER_LAZY_3(jpeg, jpeg_read_scanlines)
SINTER_LAZY_1(jpeg, jpeg_start_decompress)
SINTER_LAZY_1(jpeg, jpeg_std_error)
SINTER_LAZY_5(webp, WebPDecodeRGBInto)
SINTER_LAZY_4(webp, WebPGetInfo)
