# forgec.cmake -- forgec_add_model: a GGUF file as a CMake target (docs/embedding.md).  Included by forgecConfig.cmake.
cmake_policy(VERSION 3.20...3.31)

#   forgec_add_model(NAME MODEL file.gguf [PREFIX p] [TARGET t] [EMIT obj|lib|shared] [OPTIONS ...])
#
# Makes the imported library NAME, to be given to target_link_libraries, with the folder of its header p.h as include directory.  It is built again when the
# model (all its shards) or forgec changes.  PREFIX: NAME.  TARGET: native, which cross compiling does not allow.  EMIT: lib.  OPTIONS: of `forgec build`.
# Properties of the target: FORGEC_HEADER; with OPTIONS --weights external FORGEC_WEIGHTS, the file to load.
function(forgec_add_model name)
  cmake_parse_arguments(PARSE_ARGV 1 F "" "MODEL;PREFIX;TARGET;EMIT" "OPTIONS")
  if(F_UNPARSED_ARGUMENTS OR F_KEYWORDS_MISSING_VALUES OR NOT F_MODEL)
    message(FATAL_ERROR "forgec_add_model(${name} MODEL file.gguf [PREFIX p] [TARGET t] [EMIT obj|lib|shared] [OPTIONS ...]): "
      "MODEL is missing, a value is, or these are too many: ${F_UNPARSED_ARGUMENTS} ${F_KEYWORDS_MISSING_VALUES}")
  endif()
  if(NOT F_PREFIX)
    set(F_PREFIX "${name}")
  endif()
  if(NOT F_TARGET)
    if(CMAKE_CROSSCOMPILING)
      message(FATAL_ERROR "forgec_add_model(${name}): cross compiling needs TARGET; `forgec targets` lists them")
    endif()
    set(F_TARGET native)
  endif()
  if(NOT F_EMIT)
    set(F_EMIT lib)
  endif()
  cmake_path(ABSOLUTE_PATH F_MODEL NORMALIZE)            # against the current source folder
  set(dir "${CMAKE_CURRENT_BINARY_DIR}/forgec/${name}")
  set(header "${dir}/${F_PREFIX}.h")
  if(F_EMIT STREQUAL "obj")
    set(product "${dir}/${F_PREFIX}.o")
    add_library(${name} OBJECT IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_OBJECTS "${product}")
  elseif(F_EMIT STREQUAL "lib")
    set(product "${dir}/lib${F_PREFIX}.a")
    add_library(${name} STATIC IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${product}")
  elseif(F_EMIT STREQUAL "shared")
    set(product "${dir}/lib${F_PREFIX}.so")
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${product}" IMPORTED_SONAME "lib${F_PREFIX}.so")
  else()
    message(FATAL_ERROR "forgec_add_model(${name}): EMIT is ${F_EMIT}; there are obj, lib, shared")
  endif()

  set(shards "${F_MODEL}")
  if(F_MODEL MATCHES "-00001-of-[0-9]+\\.gguf$")
    string(REGEX REPLACE "-00001-of-([0-9]+\\.gguf)$" "-*-of-\\1" pattern "${F_MODEL}")
    file(GLOB shards "${pattern}")
  endif()
  set(made "${product}" "${header}")
  if("external" IN_LIST F_OPTIONS OR "--weights=external" IN_LIST F_OPTIONS)
    list(APPEND made "${product}.weights")
    set_target_properties(${name} PROPERTIES FORGEC_WEIGHTS "${product}.weights")
  endif()
  file(MAKE_DIRECTORY "${dir}")                          # an include directory has to exist when CMake ends
  add_custom_command(OUTPUT ${made}
    COMMAND forgec::forgec build "${F_MODEL}" -q --target "${F_TARGET}" --emit "${F_EMIT}" --prefix "${F_PREFIX}" ${F_OPTIONS} -o "${product}"
    DEPENDS ${shards} forgec::forgec VERBATIM COMMENT "forgec: ${name} for ${F_TARGET}")
  add_custom_target(${name}_forgec DEPENDS ${made})
  add_dependencies(${name} ${name}_forgec)
  set_target_properties(${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${dir}" FORGEC_HEADER "${header}")
endfunction()
