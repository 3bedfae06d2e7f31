# forgec.cmake -- forgec_add_model: a GGUF file as a CMake target (docs/embedding.md).  Included by forgecConfig.cmake and by forgec's own
# project.
cmake_policy(VERSION 3.20...3.31)

#   forgec_add_model(NAME MODEL file.gguf [PREFIX p] [TARGET t] [EMIT obj|lib|shared] [OPTIONS ...])
#
# Makes the imported library NAME for target_link_libraries, with the folder of its header p.h as include directory. It is built again if
# the model (any of its shards) or forgec changes. Defaults: PREFIX is NAME; TARGET is native, which is not allowed for cross compiling;
# EMIT is lib. OPTIONS: options of `forgec build`.
# Properties of the target: FORGEC_HEADER; with OPTIONS --weights external also FORGEC_WEIGHTS, the file to load.
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
  cmake_path(ABSOLUTE_PATH F_MODEL NORMALIZE)            # relative to the current source folder
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
  # More than 2 GiB of weights must come last in memory, as in large-weights.ld. The file's size tells approximately how many there are.
  if(NOT F_EMIT STREQUAL "shared" AND NOT F_OPTIONS MATCHES "external|none" AND F_TARGET MATCHES "^(native|portable|x86|sapphire|gfx|sm_)")
    set(bytes 0)
    foreach(shard IN LISTS shards)
      if(EXISTS "${shard}")
        file(SIZE "${shard}" size)
        math(EXPR bytes "${bytes} + ${size}")
      endif()
    endforeach()
    if(bytes GREATER 1800000000)
      set_target_properties(${name} PROPERTIES INTERFACE_LINK_OPTIONS "LINKER:-T,${CMAKE_CURRENT_FUNCTION_LIST_DIR}/large-weights.ld")
    endif()
  endif()
  file(MAKE_DIRECTORY "${dir}")                          # an include directory must exist when CMake ends
  add_custom_command(OUTPUT ${made}
    COMMAND forgec::forgec build "${F_MODEL}" -q --target "${F_TARGET}" --emit "${F_EMIT}" --prefix "${F_PREFIX}" ${F_OPTIONS} -o "${product}"
    DEPENDS ${shards} forgec::forgec VERBATIM COMMENT "forgec: ${name} for ${F_TARGET}")
  add_custom_target(${name}_forgec DEPENDS ${made})
  add_dependencies(${name} ${name}_forgec)
  set_target_properties(${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${dir}" FORGEC_HEADER "${header}")
endfunction()
