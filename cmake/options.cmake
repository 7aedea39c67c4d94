# How everything is compiled: C11, warnings, symbols hidden unless a public header shows them.
set(YOKE_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

option(YOKE_FUZZ "Build the targets of tests/fuzz, and what they test, for libFuzzer (clang)" OFF)
if(YOKE_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "YOKE_FUZZ needs clang: libFuzzer is part of it.")
  endif()
  set(YOKE_SANITIZE address,undefined)
  add_compile_options(-fsanitize=fuzzer-no-link -Wno-pass-failed) # loops that stay scalar
endif()

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Assertions guard broken invariants and cost nothing that can be measured: they stay.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g3")

add_compile_options(-Wall -Wextra -Wshadow -Wpointer-arith -Wundef -Wvla -Wwrite-strings
                    -fno-math-errno
                    "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>")
# What is no C, and newer compilers refuse by themselves.
foreach(mistake implicit-function-declaration incompatible-pointer-types int-conversion)
  add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Werror=${mistake}>")
endforeach()
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  # snprintf cuts lines and names on purpose; where a cut would be wrong, its result is checked.
  add_compile_options(-Wno-format-truncation)
endif()
option(YOKE_WERROR "Treat warnings as errors" OFF)
if(YOKE_WERROR)
  add_compile_options(-Werror)
endif()
if(YOKE_SANITIZE)
  add_compile_options(-fsanitize=${YOKE_SANITIZE} -fno-omit-frame-pointer
                      $<$<CONFIG:Release>:-O1>)
  add_link_options(-fsanitize=${YOKE_SANITIZE})
  if(YOKE_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
