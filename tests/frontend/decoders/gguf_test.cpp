// SPDX-License-Identifier: Apache-2.0
// GGUF files made by hand: what they say, and what is refused.
#include "frontend/decoders/files/gguf.h"

#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>

#include "frontend/decoders/config/read_config.h"
#include "frontend/decoders/known_models.h"
#include "tests/frontend/decoders/zeros.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

enum Kind : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64 };
constexpr std::uint32_t kI64 = 11, kF64 = 12;
constexpr std::uint32_t kTypeF32 = 0, kTypeQ4_0 = 2, kTypeQ4_1 = 3, kTypeQ8_0 = 8, kTypeQ8_K = 15;
constexpr std::uint64_t kHuge = std::uint64_t{1} << 60;

/// Little-endian bytes one after another.
struct Bytes {
  std::string data;

  template <std::regular T>
  requires std::is_arithmetic_v<T> Bytes& operator<<(T value) {
    data.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& operator<<(std::string_view text) {
    *this << std::uint64_t{text.size()};
    data += text;
    return *this;
  }
};

struct Model {
  std::uint32_t version = 3;
  std::vector<Bytes> keys, infos;
  std::string data = std::string(64, '\0');
  std::uint64_t more_tensors = 0, more_keys = 0;  // claimed, but not there

  template <typename... Values>
  Model& key(std::string_view name, std::uint32_t kind, Values... values) {
    Bytes bytes;
    bytes << name << kind;
    (bytes << ... << values);
    keys.push_back(bytes);
    return *this;
  }
  Model& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type = 0,
                std::uint64_t offset = 0) {
    Bytes bytes;
    bytes << name << static_cast<std::uint32_t>(dims.size());
    for (const std::uint64_t dim : dims) bytes << dim;
    bytes << type << offset;
    infos.push_back(bytes);
    return *this;
  }

  std::string header() const {
    Bytes bytes{"GGUF"};
    bytes << version << std::uint64_t{infos.size() + more_tensors}
          << std::uint64_t{keys.size() + more_keys};
    for (const auto* list : {&keys, &infos})
      for (const Bytes& each : *list) bytes.data += each.data;
    return bytes.data;
  }
  std::string bytes(std::size_t alignment = 32) const {
    std::string all = header();
    all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data;
  }
};

std::shared_ptr<const GgufFile> parse(const std::string& bytes) {
  const auto owner = std::make_shared<std::string>(bytes);
  return GgufFile::parse(std::as_bytes(std::span(*owner)), owner, "a.gguf");
}

std::string refusal(const std::string& bytes, ErrorCode code = ErrorCode::kInvalidModel) {
  return error_of(code, [&] { (void)parse(bytes); });
}

TEST(Gguf, MetadataHasTypes) {
  Model model;
  model.key("general.architecture", kText, std::string_view("llama"))
      .key("u8", kU8, std::uint8_t{200})
      .key("i8", kI8, std::int8_t{-2})
      .key("u16", kU16, std::uint16_t{65535})
      .key("i16", kI16, std::int16_t{-3})
      .key("u32", kU32, std::uint32_t{4000000000U})
      .key("i32", kI32, std::int32_t{-4})
      .key("u64", kU64, std::uint64_t{1} << 40)
      .key("i64", kI64, std::int64_t{-5})
      .key("f32", kF32, 1.5F)
      .key("f64", kF64, 1e300)
      .key("yes", kBool, std::uint8_t{1})
      .key("texts", kArray, std::uint32_t{kText}, std::uint64_t{2}, std::string_view("a"),
           std::string_view(""))
      .key("ints", kArray, std::uint32_t{kI16}, std::uint64_t{2}, std::int16_t{7}, std::int16_t{-8})
      .key("reals", kArray, std::uint32_t{kF32}, std::uint64_t{1}, 0.5F)
      .key("bools", kArray, std::uint32_t{kBool}, std::uint64_t{2}, std::uint8_t{0},
           std::uint8_t{1})
      .key("none", kArray, std::uint32_t{kF64}, std::uint64_t{0});
  for (const std::uint32_t version : {2U, 3U}) {
    model.version = version;
    const auto file = parse(model.header());
    EXPECT_EQ(file->architecture(), "llama");
    EXPECT_EQ(file->keys().size(), 17U);
    EXPECT_EQ(file->integer("u8"), 200);
    EXPECT_EQ(file->integer("i8"), -2);
    EXPECT_EQ(file->integer("u16"), 65535);
    EXPECT_EQ(file->integer("i16"), -3);
    EXPECT_EQ(file->integer("u32"), 4000000000);
    EXPECT_EQ(file->integer("i32"), -4);
    EXPECT_EQ(file->integer("u64"), std::int64_t{1} << 40);
    EXPECT_EQ(file->integer("i64"), -5);
    EXPECT_EQ(file->number("f32"), 1.5);
    EXPECT_EQ(file->number("f64"), 1e300);
    EXPECT_EQ(file->number("i8"), -2);
    EXPECT_EQ(file->boolean("yes"), true);
    EXPECT_THAT(*file->texts("texts"), ElementsAre("a", ""));
    EXPECT_THAT(*file->integers("ints"), ElementsAre(7, -8));
    EXPECT_THAT(*file->numbers("ints"), ElementsAre(7, -8));
    EXPECT_THAT(*file->numbers("reals"), ElementsAre(0.5));
    EXPECT_THAT(std::get<std::vector<bool>>(*file->find("bools")), ElementsAre(false, true));
    EXPECT_THAT(*file->numbers("none"), ElementsAre());
    EXPECT_EQ(file->integer("other"), std::nullopt);
    EXPECT_TRUE(file->names().empty());
    EXPECT_THAT(error_of(ErrorCode::kInvalidModel, [&] { (void)file->integer("f32"); }),
                HasSubstr("key 'f32' has a number, not an integer"));
  }
  EXPECT_THAT(
      error_of(ErrorCode::kInvalidModel, [&] { (void)parse(Model().header())->architecture(); }),
      HasSubstr("'general.architecture'"));
}

TEST(Gguf, TensorsLieWhereTheyAre) {
  Model model;
  Bytes data;
  for (int i = 0; i < 6; ++i) data << static_cast<float>(i);
  data.data.resize(32);
  data << std::uint16_t{0x3800} << std::string_view();  // a scale of 0.5
  data.data.resize(34);
  for (int i = 0; i < 16; ++i) data << static_cast<std::uint8_t>(i | (15 - i) << 4);
  data.data.resize(64);
  data << std::uint16_t{0x4000};  // 2
  for (int i = 0; i < 32; ++i) data << static_cast<std::int8_t>(i - 16);
  model.data = data.data;
  model.tensor("plain", {3, 2})
      .tensor("q4", {32, 1, 1}, kTypeQ4_0, 32)
      .tensor("q8", {32}, kTypeQ8_0, 64);
  const auto file = parse(model.bytes());
  EXPECT_THAT(file->names(), ElementsAre("plain", "q4", "q8"));
  EXPECT_THAT(file->shape("plain"), ElementsAre(2, 3));
  EXPECT_EQ(file->type("q4"), "Q4_0");
  EXPECT_THAT(std::get<ir::Tensor>(file->read("plain").value).to_doubles(),
              ElementsAre(0, 1, 2, 3, 4, 5));
  const StoredTensor q4 = file->read("q4");
  EXPECT_THAT(q4.shape, ElementsAre(1, 1, 32));
  const auto& scaled = std::get<ir::ScaledTensor>(q4.value);
  EXPECT_EQ(scaled.format.to_string(), "i4 * f16 group 32");
  EXPECT_EQ(scaled.n(), 1);
  const std::vector<double> numbers = ir::dequantized(scaled, DType::kFloat32).to_doubles();
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(numbers[i], (static_cast<double>(i) - 8) / 2);
    EXPECT_EQ(numbers[16 + i], (7 - static_cast<double>(i)) / 2);
  }
  const auto q8 = std::get<ir::ScaledTensor>(file->read("q8").value);
  EXPECT_THAT(ir::dequantized(q8, DType::kFloat32).to_doubles()[31], 30);
  EXPECT_THAT(error_of(ErrorCode::kInvalidModel, [&] { (void)file->read("plane"); }),
              AllOf(HasSubstr("no tensor 'plane'"), HasSubstr("did you mean 'plain'")));
}

TEST(Gguf, AlignmentIsThatOfTheFile) {
  Model model;
  model.key("general.alignment", kU32, std::uint32_t{8}).tensor("a", {1}, kTypeF32, 8);
  model.data = std::string(8, '\0') + std::string("\0\0\x80\x3f", 4);
  EXPECT_EQ(std::get<ir::Tensor>(parse(model.bytes(8))->read("a").value).at(0), 1);
}

TEST(Gguf, HeadersOfOtherFilesAndVersions) {
  EXPECT_THAT(refusal(""), HasSubstr("no GGUF file"));
  EXPECT_THAT(refusal("GGU"), HasSubstr("no GGUF file"));
  EXPECT_THAT(refusal("GGML" + std::string(60, '\0')), HasSubstr("no GGUF file"));
  EXPECT_THAT(refusal("GGUF"), HasSubstr("the version takes 4 bytes from byte 4"));
  Model model;
  for (const auto& [version, what] :
       {std::pair(1U, "version 1"), {4U, "version 4"}, {0x03000000U, "big-endian"}}) {
    model.version = version;
    EXPECT_THAT(refusal(model.header(), ErrorCode::kUnsupported), HasSubstr(what));
  }
  EXPECT_THAT(refusal(Model()
                          .key("split.count", kU16, std::uint16_t{3})
                          .key("split.no", kU16, std::uint16_t{1})
                          .header(),
                      ErrorCode::kUnsupported),
              AllOf(HasSubstr("part 2 of a model of 3 files"), HasSubstr("--merge")));
}

TEST(Gguf, EveryCutIsOneError) {
  Model model;
  model.key("general.architecture", kText, std::string_view("llama"))
      .key("list", kArray, std::uint32_t{kText}, std::uint64_t{1}, std::string_view("x"))
      .tensor("a", {16});
  const std::string whole = model.bytes();
  EXPECT_EQ(parse(whole)->names().size(), 1U);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("'a.gguf'")) << size;
}

TEST(Gguf, ClaimsOfAHeader) {
  Model model;
  model.more_tensors = kHuge;
  EXPECT_THAT(refusal(model.bytes()), HasSubstr("number of tensors is 1152921504606846976"));
  model.more_tensors = 1000;
  EXPECT_THAT(refusal(model.bytes()), HasSubstr("the file has only"));
  model.more_tensors = 0;
  model.more_keys = kHuge;
  EXPECT_THAT(refusal(model.bytes()), HasSubstr("number of keys is 1152921504606846976"));
  model.more_keys = 0;

  const auto with_key = [](std::uint32_t kind, auto... values) {
    return refusal(Model().key("k", kind, values...).bytes());
  };
  EXPECT_THAT(with_key(13, std::uint8_t{1}), HasSubstr("key 'k' is of the unknown type 13"));
  EXPECT_THAT(with_key(kText, kHuge), HasSubstr("key 'k' takes 1152921504606846976 bytes"));
  const auto found = [](std::uint32_t kind, auto value) {
    const auto file = parse(Model().key("k", kind, value).bytes());
    return error_of(ErrorCode::kInvalidModel, [&] { (void)file->find("k"); });
  };
  EXPECT_THAT(found(kBool, std::uint8_t{2}), HasSubstr("key 'k' has a truth value of 2"));
  EXPECT_THAT(found(kU64, ~std::uint64_t{0}), HasSubstr("key 'k' has an integer beyond 63 bits"));
  EXPECT_THAT(with_key(kArray, std::uint32_t{kU8}, kHuge), HasSubstr("the length of key 'k'"));
  EXPECT_THAT(with_key(kArray, std::uint32_t{kF64}, kHuge * 4), HasSubstr("the length of key 'k'"));
  EXPECT_THAT(with_key(kArray, std::uint32_t{kText}, kHuge), HasSubstr("the length of key 'k'"));
  EXPECT_THAT(with_key(kArray, std::uint32_t{kText}, std::uint64_t{2}, kHuge),
              HasSubstr("key 'k' takes"));
  const auto list_of_bytes = [](std::uint64_t count) {
    Model model;
    model.key("k", kArray, std::uint32_t{kU8}, count);
    model.keys[0].data += std::string(count, '\1');
    return model.bytes();
  };
  EXPECT_EQ(parse(list_of_bytes(1 << 21))->integers("k")->size(), std::size_t{1} << 21);
  EXPECT_THAT(refusal(list_of_bytes((1 << 21) + 1)), HasSubstr("2097152 is the most"));
  EXPECT_THAT(
      refusal(Model()
                  .key("k", kArray, std::uint32_t{kArray}, std::uint32_t{kU8}, std::uint64_t{0})
                  .bytes(),
              ErrorCode::kUnsupported),
      HasSubstr("key 'k' is an array of arrays"));
  EXPECT_THAT(refusal(Model().key("", kU8, std::uint8_t{1}).bytes()), HasSubstr("has no name"));
  EXPECT_THAT(refusal(Model().key(std::string(70000, 'a'), kU8, std::uint8_t{1}).bytes()),
              HasSubstr("the name of key 0 would have 70000 bytes"));
  EXPECT_THAT(
      refusal(Model().key("k", kU8, std::uint8_t{1}).key("k", kU8, std::uint8_t{1}).bytes()),
      HasSubstr("key 'k' is there twice"));
  for (const std::uint32_t alignment : {0U, 3U, 1U << 30})
    EXPECT_THAT(refusal(Model().key("general.alignment", kU32, alignment).bytes()),
                HasSubstr("'general.alignment' is"));
  EXPECT_THAT(refusal(Model().key("general.alignment", kF32, 32.F).bytes()),
              HasSubstr("key 'general.alignment' has a number, not an integer"));
}

TEST(Gguf, ClaimsOfTensors) {
  const auto one = [](std::vector<std::uint64_t> dims, std::uint32_t type = 0,
                      std::uint64_t offset = 0) {
    return refusal(Model().tensor("t", std::move(dims), type, offset).bytes());
  };
  EXPECT_THAT(one({kHuge}), HasSubstr("tensor 't' has a dimension of 1152921504606846976"));
  EXPECT_THAT(one({1 << 30, 1 << 30}), HasSubstr("more elements than a tensor may have"));
  EXPECT_THAT(one({4, 0}), HasSubstr("a dimension of 0"));
  EXPECT_THAT(one({1, 1, 1, 1, 1}), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(one({17}), HasSubstr("of 68 bytes at offset 0 exceeds the 64 bytes"));
  EXPECT_THAT(one({1}, 0, 64), HasSubstr("at offset 64 exceeds"));
  EXPECT_THAT(one({1}, 0, ~std::uint64_t{31}), HasSubstr("exceeds"));
  EXPECT_THAT(one({1}, 0, 4), HasSubstr("begins at offset 4, no multiple of the alignment of 32"));
  EXPECT_THAT(one({33}, kTypeQ4_1), HasSubstr("rows of 33 elements, no multiple of 32"));
  EXPECT_THAT(refusal(Model().tensor("t", {256}, kTypeQ8_K).bytes(), ErrorCode::kUnsupported),
              AllOf(HasSubstr("tensor 't' is stored as Q8_K"), HasSubstr("Q4_K")));
  EXPECT_THAT(refusal(Model().tensor("t", {256}, 999).bytes(), ErrorCode::kUnsupported),
              HasSubstr("stored as type 999"));
  EXPECT_THAT(refusal(Model().tensor("t", {9}).tensor("u", {1}, 0, 32).bytes()),
              HasSubstr("tensors 't' and 'u' overlap at offset 32"));
  EXPECT_THAT(refusal(Model().tensor("t", {1}).tensor("t", {1}, 0, 32).bytes()),
              HasSubstr("tensor 't' is there twice"));
  EXPECT_THAT(refusal(Model().tensor("", {1}).bytes()), HasSubstr("tensor 0 has no name"));
  // Names are shown without effect on a terminal.
  EXPECT_THAT(refusal(Model().tensor("\x1b[2J", {kHuge}).bytes()), HasSubstr("'\\x1b[2J'"));
}

/// The gguf package does not read these.
TEST(Gguf, ABitIsASign) {
  Model model;
  model.tensor("t", {128}, 41).data = std::string("\0\x40\x05", 3) + std::string(15, '\0');
  const StoredTensor stored = parse(model.bytes())->read("t");
  const auto values =
      ir::dequantized(std::get<ir::ScaledTensor>(stored.value), DType::kFloat32).to_doubles();
  EXPECT_THAT(std::span(values).first(4), ElementsAre(2, -2, 2, -2));
  EXPECT_EQ(values.size(), 128U);
}

/// NVFP4's scales have no sign, and the code of NaN is 0.
TEST(Gguf, ScalesOfFourBitFloats) {
  Model model;
  model.tensor("t", {64}, 40).data = std::string("\x38\xb8\x7f\x30", 4) + std::string(32, '\x2a');
  const StoredTensor stored = parse(model.bytes())->read("t");
  const auto values =
      ir::dequantized(std::get<ir::ScaledTensor>(stored.value), DType::kFloat32).to_doubles();
  for (const auto& [first, scale] :
       {std::pair{0, 1.0}, std::pair{16, 1.0}, std::pair{32, 0.0}, std::pair{48, 0.5}}) {
    EXPECT_EQ(values[static_cast<std::size_t>(first)], -scale);
    EXPECT_EQ(values[static_cast<std::size_t>(first + 8)], scale);
  }
}

/// Newer files say the sizes of heads beside those of llama.cpp's caches.
TEST(Gguf, LatentHeadsOfOldAndNewFiles) {
  const auto read = [](bool is_newer, std::uint32_t gate = 2) {
    Model model;
    const auto size = [&](const char* key, std::uint32_t value) {
      model.key(std::string("deepseek2.") + key, kU32, value);
    };
    model.key("general.architecture", kText, std::string_view("deepseek2"))
        .key("deepseek2.attention.layer_norm_rms_epsilon", kF32, 1e-5F)
        .key("deepseek2.expert_weights_scale", kF32, 2.5F)
        .key("deepseek2.rope.scaling.type", kText, std::string_view("yarn"))
        .key("deepseek2.rope.scaling.factor", kF32, 4.0F)
        .key("deepseek2.rope.scaling.yarn_log_multiplier", kF32, 0.1F);
    for (const char* key : {"embedding_length", "feed_forward_length", "block_count",
                            "attention.head_count", "vocab_size", "context_length"})
      size(key, 8);
    size("attention.head_count_kv", is_newer ? 1 : 8);
    size("attention.kv_lora_rank", 6);
    size("rope.dimension_count", 2);
    size("attention.key_length", is_newer ? 8 : 5);
    size("attention.value_length", is_newer ? 6 : 4);
    if (is_newer) size("attention.key_length_mla", 5);
    if (is_newer) size("attention.value_length_mla", 4);
    size("expert_count", 6);
    size("expert_used_count", 2);
    size("expert_shared_count", 1);
    size("expert_feed_forward_length", 3);
    size("expert_gating_func", gate);
    const auto file = parse(model.bytes());
    const auto keys = keys_of_gguf(*file);
    return read_config(architecture_of(*keys), *keys, Zeros({}));
  };
  for (const bool is_newer : {false, true}) {
    const DecoderConfig c = read(is_newer);
    EXPECT_EQ(c.kv_heads, 8);
    EXPECT_EQ(c.head_size, 5);
    EXPECT_EQ(c.value_size, 4);
    EXPECT_EQ(c.latent.turned, 2);
    EXPECT_EQ(c.experts.share_scale, 2.5);
    EXPECT_FALSE(c.experts.normalises);
    const double magnitude = 0.1 * std::log(4.0) + 1;
    EXPECT_NEAR(c.score_scale, magnitude * magnitude / std::sqrt(5.0), 1e-6);
    EXPECT_EQ(c.rotaries[0].factor, 1);
  }
  EXPECT_THAT(error_of(ErrorCode::kUnsupported, [&] { (void)read(true, 1); }),
              HasSubstr("'deepseek2.expert_gating_func' is 1"));
}

/// Files of some architectures lack the windows of the models that they were made of.
TEST(Gguf, MissingWindowsAreNoted) {
  const auto notes = [](std::string_view architecture, std::string_view name,
                        std::uint32_t window = 0) {
    const std::string own(architecture);
    Model model;
    model.key("general.architecture", kText, architecture).key("general.name", kText, name);
    for (const char* key : {"embedding_length", "feed_forward_length", "block_count",
                            "attention.head_count", "vocab_size", "context_length"})
      model.key(own + "." + key, kU32, std::uint32_t{8});
    for (const char* key : {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"})
      model.key(own + "." + key, kF32, 1e-5F);
    model.key(own + ".attention.head_count_kv", kU32, std::uint32_t{4})
        .key(own + ".attention.key_length", kU32, std::uint32_t{2});
    if (window > 0) model.key(own + ".attention.sliding_window", kU32, window);
    const auto file = parse(model.bytes());
    const auto keys = keys_of_gguf(*file);
    return read_config(architecture_of(*keys), *keys, Zeros({})).notes;
  };
  EXPECT_THAT(notes("starcoder2", "x"),
              ElementsAre(AllOf(HasSubstr("no sliding window"), HasSubstr("'starcoder2'"))));
  EXPECT_THAT(notes("llama", "Mistral 7B Instruct v0.1"), ElementsAre(HasSubstr("'mistral'")));
  EXPECT_THAT(notes("phi3", "x", 4), testing::IsEmpty());
  EXPECT_THAT(notes("llama", "SmolLM2"), testing::IsEmpty());
  EXPECT_THAT(notes("qwen2", "Qwen2.5"), testing::IsEmpty());  // few have one
}

TEST(Gguf, FilesAreMapped) {
  const TemporaryFolder folder;
  Model model;
  model.tensor("a", {2});
  const std::string path = folder.write("m.gguf", model.bytes());
  EXPECT_TRUE(is_gguf(path));
  EXPECT_FALSE(is_gguf(folder.write("other", "ONNX")));
  const StoredTensor read = GgufFile::open(path)->read("a");  // outlives its file
  EXPECT_THAT(std::get<ir::Tensor>(read.value).to_doubles(), ElementsAre(0, 0));
  EXPECT_EQ(GgufFile::open(path)->paths().size(), 1U);
  EXPECT_THAT(
      error_of(ErrorCode::kUsage, [&] { (void)GgufFile::open(folder.path() / "none.gguf"); }),
      HasSubstr("none.gguf"));
}

}  // namespace
}  // namespace sinter::frontend
