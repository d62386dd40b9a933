"""Frequent English words, most frequent first: tokens of the synthetic vocabulary, and the words of synthetic text."""

from __future__ import annotations

WORDS = """
the of and to in a is that for it was on are as with they be at this from have or by one had not but what all were
when we there can an your which their said if do will each about how up out them then she many some so these would
other into has more her two like him see time could no make than first been its who now people my made over did down
only way find use may water long little very after words called just where most know get through back much before go
good new write our used me man too any day same right look think also around another came come work three word must
because does part even place well such here take why things help put years different away again off went old number
great tell men say small every found still between name should home big give air line set own under read last never us
left end along while might next sound below saw something thought both few those always looked show large often
together asked house world going want school important until form food keep children feet land side without boy once
animals life enough took sometimes four head above kind began almost live page got earth need far hand high year
mother light parts country father let night following picture being study second eyes soon times story boys since
white days ever paper hard near sentence better best across during today others however sure means knew its try told
young miles sun ways thing whole hear example heard several change answer room sea against top turned learn point city
play toward five using himself usually money seen didn car morning given question problem step number equal total
value result model data function system answer reason because therefore method state power group order government
company market price million percent university research public report program general service policy development
information process history example language
""".split()  # noqa: SIM905

#: Beginnings and ends of longer words.
PIECES = """
ing tion ed er es ly ment ness able ation ity ous ive al ful est ers ions con pre pro com dis re un in sub inter trans
over
""".split()  # noqa: SIM905
