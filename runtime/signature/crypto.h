// SPDX-License-Identifier: Apache-2.0
// OpenSSL's libcrypto, loaded on first use: libsinter does not link it.
#pragma once

#include <cstddef>

namespace sinter::signature {

/// The OpenSSL 3 functions that Ed25519 needs, as declared in <openssl/evp.h>.
struct Crypto {
  static constexpr int kEd25519 = 1087;  // NID_ED25519

  void* (*new_raw_private_key)(int type, void* engine, const unsigned char* key, std::size_t size);
  void* (*new_raw_public_key)(int type, void* engine, const unsigned char* key, std::size_t size);
  int (*get_raw_public_key)(const void* pkey, unsigned char* key, std::size_t* size);
  void (*free_key)(void* pkey);
  void* (*new_context)();
  void (*free_context)(void* context);
  int (*sign_init)(void* context, void** pkey_context, const void* type, void* engine, void* pkey);
  int (*sign)(void* context, unsigned char* signature, std::size_t* size,
              const unsigned char* message, std::size_t message_size);
  int (*verify_init)(void* context, void** pkey_context, const void* type, void* engine,
                     void* pkey);
  int (*verify)(void* context, const unsigned char* signature, std::size_t size,
                const unsigned char* message, std::size_t message_size);
  int (*random_bytes)(unsigned char* buffer, int size);

  /// Throws Error(kUnsupported) naming the package to install.
  static const Crypto& get();
};

}  // namespace sinter::signature
