// SPDX-License-Identifier: Apache-2.0
// TensorProtos of every type and storage form, and external data with its attacks.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx.pb.h>

#include "ir/text/text.h"
#include "tests/frontend/model_builder.h"

namespace sinter::frontend {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

ir::Tensor read_back(const onnx::TensorProto& proto) {
  const TemporaryFolder folder;
  return read_tensor_proto(folder.write("t.pb", proto.SerializeAsString()));
}

class EveryType : public testing::TestWithParam<DType> {};

TEST_P(EveryType, RawAndTypedFieldsAgree) {
  const DType dtype = GetParam();
  const std::vector<double> values =
      dtype == DType::kBool ? std::vector<double>{1, 0, 1} : std::vector<double>{1, 0, 100};
  const auto expected = ir::Tensor::from_doubles(dtype, {3}, values);
  onnx::TensorProto raw;
  to_proto(expected, raw);
  raw.set_name("t");
  EXPECT_EQ(read_back(raw), expected);

  onnx::TensorProto typed;
  typed.set_name("t");
  typed.set_data_type(onnx_type_of(dtype));
  typed.add_dims(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto integer = static_cast<std::int32_t>(values[i]);
    switch (dtype) {
      case DType::kFloat32: typed.add_float_data(static_cast<float>(values[i])); break;
      case DType::kFloat64: typed.add_double_data(values[i]); break;
      case DType::kInt64: typed.add_int64_data(integer); break;
      case DType::kUInt32:
      case DType::kUInt64: typed.add_uint64_data(static_cast<std::uint64_t>(integer)); break;
      case DType::kFloat16:
      case DType::kBFloat16: {
        // The bit pattern, as the specification has it.
        typed.add_int32_data(expected.as<std::uint16_t>()[i]);
        break;
      }
      default: typed.add_int32_data(is_float8(dtype) ? expected.as<std::uint8_t>()[i] : integer);
    }
  }
  EXPECT_EQ(read_back(typed), expected);
}

INSTANTIATE_TEST_SUITE_P(Types, EveryType, testing::ValuesIn([] {
                           std::vector<DType> types;
                           for (int i = 0; i < kDTypeCount; ++i)
                             types.push_back(static_cast<DType>(i));
                           return types;
                         }()),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(TensorProto, NegativeIntegersInInt32Data) {
  onnx::TensorProto proto;
  proto.set_data_type(3);  // INT8
  proto.add_dims(2);
  proto.add_int32_data(-1);
  proto.add_int32_data(-128);
  EXPECT_EQ(read_back(proto).to_ints(), (std::vector<std::int64_t>{-1, -128}));
}

TEST(TensorProto, BooleansAreNormalised) {
  onnx::TensorProto proto;
  proto.set_data_type(9);
  proto.add_dims(2);
  proto.set_raw_data(std::string("\x02\x00", 2));
  EXPECT_EQ(read_back(proto), bools({2}, {1, 0}));
}

TEST(TensorProto, EmptyAndScalar) {
  onnx::TensorProto empty;
  empty.set_data_type(1);
  empty.add_dims(0);
  empty.add_dims(std::int64_t{1} << 62);
  empty.add_dims(std::int64_t{1} << 62);
  EXPECT_EQ(read_back(empty).element_count(), 0);
  onnx::TensorProto scalar;
  scalar.set_data_type(1);
  scalar.add_float_data(2);
  EXPECT_EQ(read_back(scalar).shape().size(), 0u);
}

TEST(TensorProto, FilesThatAreNone) {
  const TemporaryFolder folder;
  const auto path = folder.write("t.pb", "hello, world");
  EXPECT_THAT(error_of(ErrorCode::kInvalidModel, [&] { read_tensor_proto(path); }),
              HasSubstr("is not a serialised ONNX tensor"));
}

/// y = x + w, where w is external.
class ExternalTensor : public testing::Test {
 protected:
  ExternalTensor() {
    model_.input("x", DType::kFloat32, {4}).node("Add", {"x", "w"}, {"y"}).output("y");
    auto* tensor = model_.graph().add_initializer();
    tensor->set_name("w");
    tensor->set_data_type(1);
    tensor->add_dims(4);
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    const auto data = ramp({8});
    folder_.write("weights.bin", std::string(reinterpret_cast<const char*>(data.bytes().data()),
                                             data.bytes().size()));
  }

  void set(const std::string& key, const std::string& value) {
    auto* entry = model_.graph().mutable_initializer(0)->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  std::string save(const std::string& name = "model.onnx") const {
    return folder_.write(name, model_.bytes());
  }
  std::string error(const std::string& location) {
    model_.graph().mutable_initializer(0)->clear_external_data();
    set("location", location);
    const std::string message = error_of(ErrorCode::kInvalidModel, [&] { import_model(save()); });
    EXPECT_THAT(message, HasSubstr("external data of tensor 'w'"));
    return message;
  }

  TemporaryFolder folder_;
  ModelBuilder model_;
};

TEST_F(ExternalTensor, IsReadAtItsOffset) {
  set("location", "weights.bin");
  set("offset", "8");
  set("length", "16");
  const auto imported = import_model(save());
  for (const auto& value : imported.graph.values()) {
    if (!value.constant) continue;
    EXPECT_EQ(value.constant->to_doubles(), (std::vector<double>{2, 3, 4, 5}));
  }
}

TEST_F(ExternalTensor, InASubfolderAndAtAnUnalignedOffset) {
  fs::create_directory(folder_.path() / "data");
  folder_.write("data/w.bin", std::string(1, 'x') + std::string(16, '\0'));
  set("location", "data/w.bin");
  set("offset", "1");
  EXPECT_NO_THROW(import_model(save()));
}

TEST_F(ExternalTensor, ChangesTheHash) {
  set("location", "weights.bin");
  const std::string path = save();
  const auto before = import_model(path).hash;
  EXPECT_EQ(import_model(path).hash, before);
  folder_.write("weights.bin", std::string(32, 'a'));
  EXPECT_NE(import_model(path).hash, before);
}

TEST_F(ExternalTensor, MayNotBeAbsolute) {
  EXPECT_THAT(error("/etc/passwd"), AllOf(HasSubstr("'/etc/passwd'"), HasSubstr("is absolute")));
  EXPECT_THAT(error((folder_.path() / "weights.bin").string()), HasSubstr("is absolute"));
  EXPECT_THAT(error("C:\\weights.bin"), HasSubstr("is absolute"));
}

TEST_F(ExternalTensor, MayNotClimb) {
  EXPECT_THAT(error("../weights.bin"), HasSubstr("has a '..'"));
  EXPECT_THAT(error("data/../weights.bin"), HasSubstr("has a '..'"));
  EXPECT_THAT(error("..\\weights.bin"), HasSubstr("has a '..'"));
}

TEST_F(ExternalTensor, MayNotLeaveThroughASymbolicLink) {
  const TemporaryFolder elsewhere;
  const auto secret = elsewhere.write("secret.bin", std::string(32, 's'));
  fs::create_symlink(secret, folder_.path() / "link.bin");
  EXPECT_THAT(error("link.bin"), HasSubstr("through a symbolic link"));
  fs::create_directory_symlink(elsewhere.path(), folder_.path() / "folder");
  EXPECT_THAT(error("folder/secret.bin"), HasSubstr("through a symbolic link"));
  // A chain of links that ends outside.
  fs::create_symlink("link.bin", folder_.path() / "chain.bin");
  EXPECT_THAT(error("chain.bin"), HasSubstr("through a symbolic link"));
}

TEST_F(ExternalTensor, MayNotReachAFolderWithTheSameBeginning) {
  const fs::path sibling = folder_.path().string() + "_evil";
  fs::create_directory(sibling);
  std::ofstream(sibling / "w.bin") << std::string(32, 'e');
  fs::create_symlink(sibling / "w.bin", folder_.path() / "w.bin");
  EXPECT_THAT(error("w.bin"), HasSubstr("through a symbolic link"));
  fs::remove_all(sibling);
}

TEST_F(ExternalTensor, LinksInsideTheFolderAreFine) {
  fs::create_symlink("weights.bin", folder_.path() / "inner.bin");
  set("location", "inner.bin");
  EXPECT_NO_THROW(import_model(save()));
}

TEST_F(ExternalTensor, ModelReachedThroughALinkedFolder) {
  const TemporaryFolder elsewhere;
  fs::create_directory_symlink(folder_.path(), elsewhere.path() / "here");
  set("location", "weights.bin");
  save();
  EXPECT_NO_THROW(import_model((elsewhere.path() / "here" / "model.onnx").string()));
}

TEST_F(ExternalTensor, BadLocations) {
  EXPECT_THAT(error(""), HasSubstr("no 'location'"));
  EXPECT_THAT(error("none.bin"), HasSubstr("No such file"));
  EXPECT_THAT(error("."), HasSubstr("leaves"));
  EXPECT_THAT(error(std::string("weights.bin\0.txt", 16)), HasSubstr("zero byte"));
  fs::create_directory(folder_.path() / "data");
  EXPECT_THAT(error("data"), HasSubstr("is a directory"));
}

TEST_F(ExternalTensor, OffsetsAndLengthsAreChecked) {
  const auto fails = [&](const std::string& offset, const std::string& length) {
    model_.graph().mutable_initializer(0)->clear_external_data();
    set("location", "weights.bin");
    if (!offset.empty()) set("offset", offset);
    if (!length.empty()) set("length", length);
    return error_of(ErrorCode::kInvalidModel, [&] { import_model(save()); });
  };
  EXPECT_THAT(fails("17", ""), HasSubstr("16 bytes at offset 17 do not fit"));
  EXPECT_THAT(fails("33", ""), HasSubstr("lies behind the end"));
  EXPECT_THAT(fails("18446744073709551615", ""), HasSubstr("lies behind the end"));
  EXPECT_THAT(fails("99999999999999999999", ""), HasSubstr("is not a non-negative number"));
  EXPECT_THAT(fails("-1", ""), HasSubstr("is not a non-negative number"));
  EXPECT_THAT(fails("0x8", ""), HasSubstr("is not a non-negative number"));
  EXPECT_THAT(fails("", "8"), HasSubstr("length 8 differs from the 16 bytes"));
}

TEST_F(ExternalTensor, KeysMayNotRepeat) {
  set("location", "weights.bin");
  set("location", "other.bin");
  EXPECT_THAT(error_of(ErrorCode::kInvalidModel, [&] { import_model(save()); }),
              HasSubstr("'location' is given twice"));
}

TEST_F(ExternalTensor, AModelInMemoryHasNoFolder) {
  set("location", "weights.bin");
  EXPECT_THAT(model_.import_error(ErrorCode::kInvalidModel),
              HasSubstr("given as bytes, without the folder"));
}

/// A file is read in blocks of 16 MiB: neither a weight of several nor what is cut by a block's end
/// may depend on that.
TEST(ModelFile, IsTheSameInBlocks) {
  ModelBuilder model;
  model.input("x", DType::kFloat32, {1});
  std::string last = "x";
  for (int i = 0; i < 3; ++i) {
    const std::string name = "w" + std::to_string(i), next = "y" + std::to_string(i);
    const std::int64_t count = i == 1 ? 9'000'000 : 1'000'003;
    model.initializer(name, ramp({count}, i)).node("ReduceMax", {name}, {"m" + name});
    model.node("Add", {last, "m" + name}, {next});
    last = next;
  }
  model.output(last);
  const TemporaryFolder folder;
  const std::string bytes = model.bytes();
  ASSERT_GT(bytes.size(), 2U << 24);
  const auto mapped = import_model(folder.write("model.onnx", bytes));
  const auto held = import_model_bytes(std::as_bytes(std::span(bytes)), "");
  EXPECT_EQ(mapped.hash, held.hash);
  EXPECT_EQ(ir::print(mapped.graph), ir::print(held.graph));
  std::size_t constants = 0;
  for (std::size_t i = 0; i < mapped.graph.values().size(); ++i) {
    const auto& constant = mapped.graph.values()[i].constant;
    if (!constant) continue;
    ++constants;
    EXPECT_EQ(*constant, *held.graph.values()[i].constant);
    EXPECT_EQ(constant->at(1) - constant->at(0), 1);
  }
  EXPECT_EQ(constants, 3U);
}

}  // namespace
}  // namespace sinter::frontend
